# Both servers and the command line, one image: `docker build -t phalanx:0.1.0 .`
FROM python:3.13-slim AS dependencies
COPY requirements.txt .
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r requirements.txt \
 && rm -rf /venv/lib/python3.*/site-packages/pandas/tests

FROM python:3.13-slim
COPY --from=dependencies /venv /venv
WORKDIR /phalanx
COPY LICENSE ./
COPY certs certs
COPY cli cli
COPY cluster cluster
COPY controller controller
COPY controlplane controlplane
COPY gangs gangs
COPY kube kube
COPY manifests manifests
COPY planning planning
COPY solver solver
COPY webhook webhook
ENV PATH=/venv/bin:$PATH PYTHONPATH=/phalanx PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["python", "-c", "from cli.main import main; main(prog_name='phalanx')"]
