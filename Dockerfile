# syntax=docker/dockerfile:1
# The server as an image: `docker build -t stratalog .`

FROM rust:1.95-slim-bookworm AS build
WORKDIR /source
COPY . .
# The caches live outside of the image: a second build compiles only the changed crates.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/target \
    CARGO_TARGET_DIR=/target cargo build --locked --release -p stratalog --bin stratalog \
    && install -D /target/release/stratalog /build/stratalog

# The same Debian release as above: the binary needs the C library of its build, or a newer one.
FROM debian:bookworm-slim
# curl is for the health check, the certificates are for object stores.
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/*
# An empty volume takes the owner of the folder at its place. Therefore the image has a folder for
# each volume of docker-compose.yml into which a process without root's rights writes.
RUN groupadd --gid 10001 stratalog \
    && useradd --uid 10001 --gid stratalog --no-create-home --shell /usr/sbin/nologin stratalog \
    && install -d -o stratalog -g stratalog -m 0700 /var/lib/stratalog \
    && install -d -o stratalog -g stratalog \
        /secrets/grafana /secrets/prometheus /secrets/store /secrets/telegraf /stories
COPY --from=build /build/stratalog /usr/local/bin/stratalog

USER stratalog
WORKDIR /var/lib/stratalog
# Nothing outside of a container reaches the container's loopback interface. On all interfaces the
# server starts only with TLS and with a password: docs/clients/grafana.md.
ENV STRATALOG_DATA_DIR=/var/lib/stratalog \
    STRATALOG_PG_LISTEN=0.0.0.0:5433 \
    STRATALOG_FLIGHT_LISTEN=0.0.0.0:50051 \
    STRATALOG_HTTP_LISTEN=0.0.0.0:8086 \
    STRATALOG_ILP_LISTEN=0.0.0.0:9009
EXPOSE 5433 50051 8086 9009
VOLUME /var/lib/stratalog

# The request never leaves the container, so the check does not need the certificate's name.
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s \
    CMD ["/bin/sh", "-c", "exec curl -fsSk -o /dev/null http${STRATALOG_TLS_CERT_FILE:+s}://127.0.0.1:8086/health"]

# A stop waits for running statements (shutdown_grace_ms).
STOPSIGNAL SIGTERM
ENTRYPOINT ["stratalog"]
CMD ["serve"]
