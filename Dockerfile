# loadsheet as an image: the wheel's code in a virtual environment of its own, on a slim base, run by a user who owns nothing else.
#   docker build -t loadsheet .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#       -v loadsheet:/data -v ./mappings:/mappings:ro -v ./token:/run/secrets/token:ro -e LOADSHEET_TOKEN_FILE=/run/secrets/token loadsheet run
# Inbox, outbox and state lie on one volume, so that files are renamed from one to the other and never copied.
# The digest is the index of all architectures of 3.11.16. To renew it: docker buildx imagetools inspect python:3.11-slim-bookworm
ARG PYTHON=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${PYTHON} AS build
WORKDIR /src
COPY .constraints.hashed.txt pyproject.toml README.md LICENSE ./
COPY src src
COPY inbox_samples inbox_samples
COPY mappings mappings
# What is downloaded has the hash that was committed; our own code is built without a download. The environment gets no pip, and afterwards
# neither what built it nor the tests of the two largest libraries.
RUN python -m venv --without-pip /opt/loadsheet \
    && python -m pip --python /opt/loadsheet install --no-cache-dir --disable-pip-version-check --require-hashes --requirement .constraints.hashed.txt \
    && python -m pip --python /opt/loadsheet install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation . \
    && python -m pip --python /opt/loadsheet uninstall --yes --disable-pip-version-check hatchling pathspec pluggy trove-classifiers \
    && find /opt/loadsheet -type d -path "*/site-packages/*" -regex ".*/\(pandas\|numpy\)/.*tests" -prune -exec rm -r {} +

FROM ${PYTHON}
RUN groupadd --gid 10001 loadsheet \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin loadsheet \
    && install -d -o 10001 -g 10001 -m 0750 /data /data/inbox /data/outbox \
    && install -d -o 10001 -g 10001 -m 0700 /data/state
COPY --from=build /opt/loadsheet /opt/loadsheet
ENV PATH=/opt/loadsheet/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LOADSHEET_INBOX=/data/inbox \
    LOADSHEET_OUTBOX=/data/outbox \
    LOADSHEET_STATE=/data/state \
    LOADSHEET_MAPPINGS=/mappings
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5m --timeout=60s --start-period=1m --retries=3 CMD ["loadsheet", "doctor", "--quick"]
ENTRYPOINT ["loadsheet"]
CMD ["watch"]
