"""Certificates for the tests, made by the openssl command line in a folder of their own."""

import pathlib
import subprocess


def _openssl(*arguments, text=None):
    done = subprocess.run(["openssl", *map(str, arguments)], input=text, capture_output=True, text=True, timeout=180)
    if done.returncode:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr}")


KEYS = {
    "ecdsa": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "rsa": ["-newkey", "rsa:2048"],
}


class Authority:
    """A CA. `issue` gives (certificate, key) paths."""

    def __init__(self, directory, name="ca"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.certificate, self.key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        self.name = name
        _openssl("req", "-x509", *KEYS["ecdsa"], "-nodes", "-keyout", self.key, "-out", self.certificate, "-days", 60,
                 "-subj", f"/CN={name}")

    def issue(self, name, kind="ecdsa", days=60, alternative="DNS:localhost,IP:127.0.0.1", into=None):
        stem = self.directory / f"{self.name}-{into or name}"
        certificate, key, request = (stem.with_suffix(end) for end in (".pem", ".key", ".csr"))
        extensions = stem.with_suffix(".ext")
        extensions.write_text(f"subjectAltName={alternative}\n")
        _openssl("req", *KEYS[kind], "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                 "-out", certificate, "-days", days, "-extfile", extensions)
        return certificate, key
