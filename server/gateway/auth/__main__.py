"""`python -m k25serve.server.gateway.auth NAME`: a new API key, and its line for the keys file."""

import argparse
import hashlib
import secrets


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m k25serve.server.gateway.auth", description=__doc__)
    parser.add_argument("name", help="whose key it is: letters, digits, _ . @ -")
    parser.add_argument("--staff", action="store_true", help="may choose the arm by header")
    given = parser.parse_args()
    key = f"sk-{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    print(f"key, shown this once: {key}")
    print(f"line for the keys file: {given.name} sha256:{digest}{' staff' if given.staff else ''}")


if __name__ == "__main__":
    main()
