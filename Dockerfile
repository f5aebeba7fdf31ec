# Both servers and the command line in one image: make image, or docker build -t phalanx:0.1.0 .
# The Python that requirements.txt is locked for. For builds that can be repeated, name it by digest:
#   make image BASE=python:3.11-slim@sha256:…
ARG PYTHON=python:3.11-slim

FROM ${PYTHON} AS build
RUN python -m venv --without-pip /venv
# Dependencies in a layer of their own, every file checked against its hash.
COPY requirements.txt requirements-build.txt /source/
RUN pip --python /venv/bin/python install --no-cache-dir --no-compile --require-hashes --only-binary :all: -r /source/requirements.txt
# Less than half of it is ever imported (docs/decisions/0016).
COPY image/leave_out.py /source/image/
RUN python /source/image/leave_out.py /venv
RUN python -m venv /build && /build/bin/pip install --no-cache-dir --require-hashes -r /source/requirements-build.txt
COPY . /source
RUN /build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels /source
RUN pip --python /venv/bin/python install --no-cache-dir --no-compile --no-deps --no-index --find-links /wheels phalanx
# Compiled once, here: where the root is read-only each start would do it again. By hash, so that the time does not matter.
RUN /venv/bin/python -m compileall -q --invalidation-mode unchecked-hash /venv/lib

FROM ${PYTHON}
COPY --from=build /venv /venv
# Buffers of a TLS handshake go back to the system when they are freed (docs/decisions/0012).
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532
ENTRYPOINT ["phalanx"]
