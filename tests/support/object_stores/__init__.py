"""Real stores on loopback for tests: S3 (versitygw), GCS (fake-gcs-server), Azure (azurite), HTTP (nginx).

A proxy does harm on the way to them. Others stand in for the cloud's services that hand out credentials.
"""
