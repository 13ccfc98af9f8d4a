// Hide the groups whose ids do not contain the text in the search box.
const box = document.getElementById('find');
if (box) box.addEventListener('input', () => {
  const typed = box.value.toLowerCase();
  for (const each of document.querySelectorAll('[data-group]'))
    each.hidden = !each.dataset.group.toLowerCase().includes(typed);
});
