"""One dialect for clients, whatever an arm speaks: requests on their way in, answers on their way out."""
