"""The certificate: verified facts about a clustering, and their wording."""

from wolfmeans.certificate.record import Certificate

__all__ = ["Certificate"]
