"""The certificate: what is known about a clustering, and how it is said."""

from wolfmeans.certificate.record import Certificate

__all__ = ["Certificate"]
