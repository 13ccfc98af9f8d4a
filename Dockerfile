# The broker alone, run by a user who is not root; amd64 and arm64.
#
#   docker build -t coterie .
#   docker run -p 127.0.0.1:9092:9092 coterie
#
# The broker asks for no password, so the port is published on loopback. container/start-broker.sh
# says which addresses clients are given; docs/containers.md has compose, Kubernetes and Testcontainers.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
# pure, or compiled: that takes the C compiler some minutes.
ARG FORM=pure
# The compiler has the version of the image's Debian, and this stage is thrown away.
# hadolint ignore=DL3008
RUN if [ "$FORM" = compiled ]; then \
      apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; \
    fi
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY compilation compilation
COPY coterie coterie
# A tree of its own, so that one layer of the image has all that the base lacks, and nothing else.
RUN python -m venv --without-pip /opt/coterie \
    && COTERIE_FORM=$FORM python -m pip --python /opt/coterie/bin/python install --no-cache-dir .

FROM python:${PYTHON}-slim
COPY --from=build /opt/coterie /opt/coterie
COPY --chmod=755 container/start-broker.sh /usr/local/bin/start-broker
# The user is a number: only so Kubernetes can tell that it is not root. Platforms that choose a
# user of their own give it the group 0.
RUN useradd --uid 1000 --gid 0 --no-log-init --home-dir /data coterie \
    && install -d -o 1000 -g 0 -m 775 /data
USER 1000
ENV PATH=/opt/coterie/bin:$PATH COTERIE_LOG_DIRS=/data
VOLUME /data
# Clients on the host, clients in containers.
EXPOSE 9092 19092
STOPSIGNAL SIGTERM
# `topics list` asks only the address that it is given, which is inside the container.
HEALTHCHECK --interval=10s --timeout=10s --start-period=10s --retries=3 \
  CMD ["coterie", "topics", "list", "--bootstrap-server", "127.0.0.1:9092", "--timeout", "8"]
ENTRYPOINT ["start-broker"]
