# flopcast beside PyTorch for ROCm, to measure and to predict on an AMD GPU:
#
#     docker build -t flopcast .
#     docker run --rm -it --device /dev/kfd --device /dev/dri --group-add video --ipc host -v "$PWD:/data" flopcast \
#         measure --preset small --device cuda:0 -o /data/runs.parquet
#
# Prediction, projection and forecasts need no GPU: leave the devices out, or build with
# `--build-arg BASE=python:3.11-slim`. BASE is also how to pin the ROCm release. The base image brings PyTorch; the extra
# `measure` would fetch one built for CUDA. flopcast needs Python 3.11 and NumPy 2.
ARG BASE=rocm/pytorch:latest
FROM ${BASE}

COPY . /tmp/flopcast
RUN python3 -m pip install --no-cache-dir "/tmp/flopcast[excel]" \
 && rm -rf /tmp/flopcast \
 && flopcast --version

WORKDIR /data
ENTRYPOINT ["flopcast"]
CMD ["--help"]
