"""The engines behind the gateway: what each one is, whether it can be asked, and which one a request goes to."""
