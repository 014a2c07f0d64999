# Nibble in a container, for a CPU or, with the target cuda, for NVIDIA GPUs too.
#
#   docker build -t nibble .
#   docker run --rm -v "$PWD/models:/models:ro" -p 8080:8080 -e NIBBLE_API_KEY=... nibble \
#     serve /models/llama-w4 --host 0.0.0.0
#   docker build -t nibble-cuda --target cuda .
#   docker run --rm --gpus all -v "$PWD/models:/models:ro" nibble-cuda bench /models/llama-w4 --device cuda
#
# The packages are those of Debian 12 in both: the program is linked with the same libraries as tools/check_package.sh checks.
ARG DEBIAN=debian:12-slim

FROM ${DEBIAN} AS tools
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /source
COPY tools/install_dependencies.sh tools/
RUN tools/install_dependencies.sh --no-tests \
  && apt-get install -y --no-install-recommends dpkg-dev file \
  && rm -rf /var/lib/apt/lists/*

FROM tools AS build_cpu
COPY . .
RUN cmake --preset release -DNIBBLE_BUILD_TESTS=OFF -DNIBBLE_WITH_CUDA=OFF -DCMAKE_INSTALL_PREFIX=/usr \
  && cmake --build build/release \
  && cpack --config build/release/CPackConfig.cmake -B /packages

# The toolkit is NVIDIA's for Debian 12; its runtime is linked in.
FROM tools AS build_cuda
ARG CUDA=12-9
ADD https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/cuda-keyring_1.1-1_all.deb /tmp/cuda-keyring.deb
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates \
  && dpkg -i /tmp/cuda-keyring.deb \
  && apt-get update \
  && apt-get install -y --no-install-recommends "cuda-nvcc-${CUDA}" "cuda-cudart-dev-${CUDA}" "libcublas-dev-${CUDA}" \
    "libcusolver-dev-${CUDA}" "libcusparse-dev-${CUDA}" \
  && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset cuda -DNIBBLE_BUILD_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/usr \
  && cmake --build build/cuda \
  && cpack --config build/cuda/CPackConfig.cmake -B /packages

FROM ${DEBIAN} AS runtime
RUN useradd --create-home --home-dir /var/lib/nibble --uid 10001 nibble \
  && apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/*
ENV HF_HOME=/var/lib/nibble/huggingface
EXPOSE 8080
ENTRYPOINT ["nibble"]
CMD ["--help"]

# cuBLAS and cuSOLVER are opened by `quantize --device cuda` and by float layers of many tokens. The driver comes from the host.
FROM runtime AS cuda
ARG CUDA=12-9
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=build_cuda /tmp/cuda-keyring.deb /tmp/
COPY --from=build_cuda /packages/nibble_*.deb /tmp/packages/
RUN dpkg -i /tmp/cuda-keyring.deb \
  && apt-get update \
  && apt-get install -y --no-install-recommends /tmp/packages/*.deb "libcublas-${CUDA}" "libcusolver-${CUDA}" \
  && rm -rf /var/lib/apt/lists/* /tmp/packages /tmp/cuda-keyring.deb
USER 10001
WORKDIR /var/lib/nibble

# The last target is what `docker build` makes.
FROM runtime AS cpu
COPY --from=build_cpu /packages/nibble_*.deb /tmp/packages/
RUN apt-get update \
  && apt-get install -y --no-install-recommends /tmp/packages/*.deb \
  && rm -rf /var/lib/apt/lists/* /tmp/packages
USER 10001
WORKDIR /var/lib/nibble
