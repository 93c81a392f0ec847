"""A mail server for trying out: SMTP on this computer, a folder of mails, and mails as a reader sees them.

It needs nothing but the standard library, so that it is there wherever Digestif is.
"""
