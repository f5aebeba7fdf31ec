# Both servers and the command line in one image: docker build -t phalanx:0.1.0 .
# The Python that requirements.txt is locked for. For builds that can be repeated, name it by digest:
#   docker build --build-arg PYTHON=python:3.11-slim@sha256:… -t phalanx:0.1.0 .
ARG PYTHON=python:3.11-slim

FROM ${PYTHON} AS build
RUN python -m venv --without-pip /venv
# Dependencies in a layer of their own, every file checked against its hash.
COPY requirements.txt requirements-build.txt /source/
RUN pip --python /venv/bin/python install --no-cache-dir --require-hashes --only-binary :all: -r /source/requirements.txt
RUN rm -rf /venv/lib/python3.11/site-packages/pandas/tests
RUN python -m venv /build && /build/bin/pip install --no-cache-dir --require-hashes -r /source/requirements-build.txt
COPY . /source
RUN /build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels /source
RUN pip --python /venv/bin/python install --no-cache-dir --no-deps --no-index --find-links /wheels phalanx

FROM ${PYTHON}
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532
ENTRYPOINT ["phalanx"]
