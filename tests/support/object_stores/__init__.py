"""Real stores on loopback for the tests of storage: S3 (versitygw), GCS (fake-gcs-server) and HTTP (nginx); a proxy
that does harm on the way to them; and stand-ins for the cloud's services that hand out credentials.
"""
