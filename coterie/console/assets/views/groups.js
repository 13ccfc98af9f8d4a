// All groups.
export function open(main) {
  main.textContent = 'Groups';
  return { close() {} };
}
