#!/bin/sh
# Start of the image: a broker with a listener for clients on each side.
#
#   HOST     0.0.0.0:9092    clients on the host; they are given COTERIE_ADVERTISE (localhost:9092)
#   NETWORK  0.0.0.0:19092   clients in containers; they are given COTERIE_ADVERTISE_NETWORK, by
#                            default the name that the engine has given this container
#
# COTERIE_ADVERTISE_FILE names a file to wait for, whose line is COTERIE_ADVERTISE: some engines
# choose the port on the host only when the container runs, and Testcontainers then copies it in.
#
# A container is reached from outside it, so the listeners are open; what is published is decided by
# whoever starts it. COTERIE_LISTENERS and the settings that belong to it replace both.
# Arguments are those of `coterie serve`; if the first one is no option, they are another command.
set -eu

case ${1:--} in
  -*) ;;
  *) exec "$@" ;;
esac

if [ -n "${COTERIE_ADVERTISE_FILE:-}" ]; then
  # The first process of a container ignores a signal that it has no trap for.
  trap 'exit 143' TERM INT
  until [ -s "$COTERIE_ADVERTISE_FILE" ]; do sleep 0.05; done
  trap - TERM INT
  COTERIE_ADVERTISE=$(cat "$COTERIE_ADVERTISE_FILE")
fi

if [ -z "${COTERIE_LISTENERS:-}" ]; then
  host=${COTERIE_ADVERTISE:-localhost:9092}
  network=${COTERIE_ADVERTISE_NETWORK:-$(hostname):19092}
  export COTERIE_LISTENERS=HOST://0.0.0.0:9092,NETWORK://0.0.0.0:19092
  export COTERIE_ADVERTISED_LISTENERS="HOST://$host,NETWORK://$network"
  export COTERIE_LISTENER_SECURITY_PROTOCOL_MAP=HOST:PLAINTEXT,NETWORK:PLAINTEXT
fi
# These are for this script. The first one is also an option of `coterie serve`, for one listener.
unset COTERIE_ADVERTISE COTERIE_ADVERTISE_FILE COTERIE_ADVERTISE_NETWORK

exec coterie serve --allow-remote "$@"
