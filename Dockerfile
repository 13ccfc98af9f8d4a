# A small image with the server only: docker build -t coterie . && docker run -p 127.0.0.1:9092:9092 coterie
# The broker asks for no password, so the port is published on loopback.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY coterie coterie
COPY compilation compilation
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels coterie && rm -rf /wheels \
    && useradd --create-home coterie && mkdir /data && chown coterie /data
USER coterie
VOLUME /data
EXPOSE 9092
# A container is reached from outside it, so the two switches for a listener beyond loopback are set here;
# the advertised address is what clients on the host connect to. For clients in containers of one network run it with
# --network NAME --name coterie -e COTERIE_ADVERTISE=coterie:9092.
ENV COTERIE_ADVERTISE=localhost:9092
STOPSIGNAL SIGTERM
ENTRYPOINT ["sh", "-c", "exec coterie serve --host 0.0.0.0 --allow-remote --port 9092 --advertise \"$COTERIE_ADVERTISE\" --data-dir /data \"$@\"", "coterie"]
