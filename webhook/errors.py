"""The errors of an admission call. There are three families, and each family has its own answer.

- A fault of the reviewed object is no exception. It is the value `webhook.admission.reviews.Refused`. The user reads
  it in the terminal.
- A fault of the call is `BadReview`, HTTP 400: the request is no AdmissionReview v1.
- A fault of the webhook is `Unavailable`, HTTP 500. The API server then applies its failurePolicy.
"""


class BadReview(Exception):  # noqa: N818 -- the families are named in the docs, without the suffix
    """The request is no valid AdmissionReview v1. It is answered with HTTP 400."""


class Unavailable(Exception):  # noqa: N818 -- as above
    """The webhook cannot answer now: HTTP 500, so the API server applies its failurePolicy. Users see the text."""
