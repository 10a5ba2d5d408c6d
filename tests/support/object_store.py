"""A real S3-compatible server (moto's, on a socket of its own) and objects in it, for inboxes and outboxes in stores."""

import contextlib
import itertools
import logging
import os
from collections.abc import Iterator
from unittest.mock import patch

import boto3
from moto.server import ThreadedMotoServer

from loadsheet.settings import Settings

_KEYS = {
    "AWS_ACCESS_KEY_ID": "a-key",
    "AWS_SECRET_ACCESS_KEY": "a-secret-that-no-message-tells",
    "AWS_DEFAULT_REGION": "eu-central-1",
}

_numbers = itertools.count(1)  # all servers of a process have the same buckets


class Bucket:
    """A bucket of its own, as another program sees it."""

    def __init__(self, client, name):
        self._client, self.name = client, name

    def put(self, key, content=b"Order\nA1\n"):
        self._client.put_object(Bucket=self.name, Key=key, Body=content)

    def get(self, key):
        return self._client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def keys(self, prefix=""):
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return sorted(one["Key"] for page in pages for one in page.get("Contents", []))

    def remove(self, *keys):
        for key in keys:
            self._client.delete_object(Bucket=self.name, Key=key)

    def drop(self):
        self.remove(*self.keys())
        self._client.delete_bucket(Bucket=self.name)

    def settings(self, folder, **more):
        """Settings whose inbox and outbox lie in this bucket; `folder` is the machine's own."""
        top = f"s3://{self.name}"
        given = {"inbox": f"{top}/inbox", "outbox": f"{top}/outbox", "state": folder / "state", "settle_s": 0}
        return Settings(**(given | more))


class Store:
    """A server while it runs; `environment` is how programs reach it."""

    def __init__(self, server):
        host, port = server.get_host_and_port()
        self.environment = {**_KEYS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}

    def bucket(self):
        found = Bucket(self.client(), f"bucket-{next(_numbers)}")
        self.client().create_bucket(Bucket=found.name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        return found

    def client(self):
        keys = {"aws_access_key_id": "a-key", "aws_secret_access_key": "other", "region_name": "eu-central-1"}
        return boto3.client("s3", endpoint_url=self.environment["AWS_ENDPOINT_URL"], **keys)


@contextlib.contextmanager
def running_store() -> Iterator[Store]:
    """A server while the block lasts, and the environment that leads to it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it tells of every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        store = Store(server)
        with patch.dict(os.environ, store.environment):
            yield store
    finally:
        server.stop()
