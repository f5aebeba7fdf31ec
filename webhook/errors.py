"""What can go wrong while answering, in three families that must never be mixed.

- of the reviewed object: no exception but a value, `webhook.admission.reviews.Refused`, which the user reads in his
  terminal
- of the call: `BadReview`, HTTP 400, the caller does not speak AdmissionReview v1
- of our own: `Unavailable`, HTTP 500, the API server then does what its failurePolicy says
"""


class BadReview(Exception):  # noqa: N818 -- the families are named in the docs, without the suffix
    """The call itself cannot be understood."""


class Unavailable(Exception):  # noqa: N818 -- as above
    """The webhook cannot do its work now; the text says why and reaches the user."""
