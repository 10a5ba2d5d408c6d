"""Pings of an external health check (heartbeat monitoring), at the start and end of a run.

With a short timeout, without proxies, and following no redirect to another host. The URL is secret: messages show only its host.
"""

import urllib.error
import urllib.request
from base64 import b64encode
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.parse import unquote, urlsplit, urlunsplit

BODY_BYTES_MAX = 10_000
"""Maximum size of a ping's body; of a longer one the end is sent."""


class _SameHost(urllib.request.HTTPRedirectHandler):
    def redirect_request(  # noqa: PLR0917 (signature is urllib's)
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Follow a redirect on the same host; treat any other as an error."""
        if urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def ping(url: str, step: str, text: str, timeout_s: float) -> str:
    """Ping the health check at `url` for a step (`start`, or an exit code) with a body. Returns the error, without secrets, or an empty
    text.
    """
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    target = urlunsplit(parts._replace(netloc=host, path=f"{parts.path.rstrip('/')}/{step}", fragment=""))
    body = text.encode("utf-8", "replace")[-BODY_BYTES_MAX:]
    headers = {"Content-Type": "text/plain; charset=utf-8", "User-Agent": "loadsheet"}
    if at:
        headers["Authorization"] = f"Basic {b64encode(unquote(user).encode()).decode()}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _SameHost())
    try:
        request = urllib.request.Request(target, data=body, headers=headers)  # noqa: S310 (the settings take http and https only)
        with opener.open(request, timeout=timeout_s):
            return ""
    except urllib.error.HTTPError as answer:
        answer.close()
        why = f"it answered {answer.code}"
    except urllib.error.URLError as error:
        why = getattr(error.reason, "strerror", None) or type(error.reason).__name__
    except (OSError, HTTPException, ValueError) as error:
        why = type(error).__name__
    return f"the health check at {parts.scheme}://{parts.hostname or ''} could not be told ({why})"
