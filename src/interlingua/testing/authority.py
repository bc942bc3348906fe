"""A certificate authority for one test: nothing trusts it unless configured to."""

import ssl

from ..values.errors import InterlinguaError


class Authority:
    """A new authority each time; it signs certificates for this machine's names only."""

    def __init__(self) -> None:
        try:
            import trustme
        except ImportError:
            raise InterlinguaError('Server(tls=True) needs trustme: pip install "interlingua[testing]"') from None
        self._authority = trustme.CA()
        self._certificate = self._authority.issue_cert("127.0.0.1", "localhost")

    @property
    def pem(self) -> bytes:
        return self._authority.cert_pem.bytes()

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._certificate.configure_cert(context)
        return context
