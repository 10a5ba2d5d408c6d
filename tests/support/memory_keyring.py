"""A keyring that lives in memory: what keyring is pointed to (PYTHON_KEYRING_BACKEND) where a machine has no safe of its own."""

from typing import ClassVar

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked


class InMemory(KeyringBackend):
    """Holds passwords for as long as the process lives; `locked` is what it is until somebody types a password."""

    priority = 1
    held: ClassVar[dict[tuple[str, str], str]] = {}
    locked: ClassVar[bool] = False

    def get_password(self, service, username):
        """The password, or None."""
        if self.locked:
            raise KeyringLocked("s3cret details")
        return self.held.get((service, username))

    def set_password(self, service, username, password):
        """Keep a password."""
        self.held[service, username] = password

    def delete_password(self, service, username):
        """Forget a password."""
        del self.held[service, username]
