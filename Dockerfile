# Logquake in a container, for an ordinary user: docs/how-to/container.md explains it.
#
#   docker build --tag logquake .
#   docker build --tag logquake --build-arg BASE=my-debian .

ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv
COPY requirements /src/requirements
# Each file that is downloaded has the hash that the locks name. Nothing is built in an environment
# of its own, where versions would not be locked.
RUN python3 -m venv /opt/logquake \
 && /opt/logquake/bin/pip install --no-cache-dir --no-deps --require-hashes \
      --requirement /src/requirements/build.lock \
 && /opt/logquake/bin/pip install --no-cache-dir --no-deps --require-hashes --no-build-isolation \
      --requirement /src/requirements/plain.lock
COPY . /src
RUN /opt/logquake/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel /src \
 && /opt/logquake/bin/pip install --no-deps --no-index /wheel/*.whl

FROM ${BASE}
# iproute2 and nftables cut networks, where the container may make namespaces; libfuse3-3 breaks
# disks.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
      ca-certificates default-jre-headless iproute2 libfuse3-3 nftables procps python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home logquake
COPY --from=build /opt/logquake /opt/logquake
ENV PATH=/opt/logquake/bin:$PATH
USER logquake
WORKDIR /home/logquake
# Runs, and in .cache the Kafka that was downloaded.
VOLUME /home/logquake
ENTRYPOINT ["logquake"]
CMD ["--help"]
