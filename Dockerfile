# routebench for processors. What it writes goes to the folder that is mounted, which its user (1000) must be able to write:
#   docker build -t routebench .
#   docker run --rm -v "$PWD:/work" routebench suite accuracy --preset smoke
# For NVIDIA GPUs, build with --build-arg INDEX= (pip's own torch is for them) and run with --gpus all.
FROM python:3.12-slim
ARG INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install --yes --no-install-recommends g++ git make && rm -rf /var/lib/apt/lists/*
COPY constraints.txt /routebench/
RUN pip install --no-cache-dir ${INDEX:+--extra-index-url "$INDEX"} --constraint /routebench/constraints.txt torch torchvision
COPY . /routebench
RUN pip install --no-cache-dir --constraint /routebench/constraints.txt /routebench
RUN useradd --create-home --uid 1000 bench && install --directory --owner=bench /work
USER bench
WORKDIR /work
ENTRYPOINT ["routebench"]
