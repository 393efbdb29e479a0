# SpecDiff Lab for any host that runs containers: on the CPU, or with TORCH= on a CUDA device.
#   docker build -t specdiff . && docker run -p 7860:7860 specdiff
#   docker build --build-arg TORCH= -t specdiff-cuda . && docker run --gpus all -p 7860:7860 specdiff-cuda
FROM python:3.12-slim

# The index for torch: by default without CUDA; leave it empty for the usual build with CUDA.
ARG TORCH=https://download.pytorch.org/whl/cpu

# The folder for models exists in the image, so that a volume mounted there belongs to the same user.
RUN useradd --create-home --uid 1000 lab && install -d -o lab -g lab /home/lab/hub
WORKDIR /home/lab/specdiff
COPY --chown=lab requirements.txt .
RUN PIP_EXTRA_INDEX_URL="$TORCH" pip install --no-cache-dir -r requirements.txt
COPY --chown=lab app.py ./
COPY --chown=lab app app/
COPY --chown=lab specdiff_core specdiff_core/
COPY --chown=lab assets assets/

USER lab
ENV GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=7860 SPECDIFF_LOG=json HF_HOME=/home/lab/hub SPECDIFF_CACHE=/home/lab/hub/specdiff PYTHONUNBUFFERED=1
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7860/healthz', timeout=3)"]
STOPSIGNAL SIGTERM
# exec form: the server is process 1 and receives SIGTERM
CMD ["python", "app.py"]
