# Two stages: the first builds with every -dev package, the second holds the programs and the libraries they need.
FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
      build-essential pkg-config libev-dev libpq-dev libssl-dev zlib1g-dev liblz4-dev libsnappy-dev \
      libjson-c-dev uthash-dev libyaml-dev libmicrohttpd-dev libisal-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY Makefile ./
COPY broker broker
COPY client client
COPY sql sql
COPY tools tools
ARG VERSION=container
RUN make -j"$(nproc)" VERSION="$VERSION" build && strip build/pgcursusd build/pgcursus

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
      libev4 libpq5 libssl3 zlib1g liblz4-1 libsnappy1v5 libjson-c5 libyaml-0-2 libmicrohttpd12 libisal2 \
      curl ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --shell /usr/sbin/nologin pgcursus
COPY --from=build /src/build/pgcursusd /src/build/pgcursus /usr/local/bin/
USER pgcursus
ENV PGCURSUS_LISTEN=*:9000 PGCURSUS_HTTP=*:9080
EXPOSE 9000 9080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=3 \
  CMD curl -fs http://127.0.0.1:9080/ready || exit 1
# Nodes need names of their own, and a container's name is one.
ENTRYPOINT ["/bin/sh", "-c", "PGCURSUS_NODE_ID=${PGCURSUS_NODE_ID:-$(hostname)} exec pgcursusd \"$@\"", "pgcursusd"]
