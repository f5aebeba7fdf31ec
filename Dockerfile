# Both servers and the command line, one image: `docker build -t phalanx:0.1.0 .`
# The Python that requirements.txt is locked for.
FROM python:3.11-slim AS build
RUN python -m venv /venv
# Dependencies in a layer of their own, every file checked against its hash.
COPY requirements.txt /source/
RUN /venv/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r /source/requirements.txt \
 && rm -rf /venv/lib/python3.*/site-packages/pandas/tests
COPY . /source
RUN /venv/bin/pip install --no-cache-dir --no-deps /source

FROM python:3.11-slim
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["phalanx"]
