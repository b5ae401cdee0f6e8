"""
A store for private buckets: moto's, where every request must be signed with the key of one user. Prints its address
and that key as JSON, and ends with its standard input.

moto checks signatures in headers alone; those in links are checked here, with botocore's own signer.
"""

import json
import logging
import os
import sys
from datetime import datetime, timedelta, timezone
from unittest.mock import patch
from urllib.parse import parse_qsl, urlsplit

# What is done with the first requests, which make user and bucket, needs no signature.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "4"

import boto3
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

REGION = "eu-west-1"
BUCKET = "results"
logging.getLogger("werkzeug").disabled = True


class SignedLinks:
    """Takes signatures in queries, and refuses those that botocore would have made otherwise."""

    def __init__(self, app):
        self.app = app
        self.credentials = None

    def __call__(self, environ, respond):
        query = dict(parse_qsl(environ["QUERY_STRING"]))
        if "X-Amz-Signature" not in query:
            return self.app(environ, respond)
        host, method = environ["HTTP_HOST"], environ["REQUEST_METHOD"]
        url = f"http://{host}{environ['PATH_INFO']}"
        if not self.is_valid(method, url, query):
            respond("403 Forbidden", [])
            return [b"SignatureDoesNotMatch"]
        request = AWSRequest(method, url, headers={"host": host})
        S3SigV4Auth(self.credentials, "s3", REGION).add_auth(request)
        signed = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
        return self.app({**environ, **signed, "QUERY_STRING": "", "RAW_URI": environ["PATH_INFO"]}, respond)

    def is_valid(self, method, url, query):
        made = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
        expires = int(query["X-Amz-Expires"])
        if not made <= datetime.now(timezone.utc) <= made + timedelta(seconds=expires):
            return False
        request = AWSRequest(method, url)
        with patch("botocore.auth.get_current_datetime", lambda **_: made):
            S3SigV4QueryAuth(self.credentials, "s3", REGION, expires=expires).add_auth(request)
        return dict(parse_qsl(urlsplit(request.url).query)) == query


app = SignedLinks(DomainDispatcherApplication(create_backend_app))
server = make_server("127.0.0.1", 0, app, threaded=True)
endpoint = f"http://127.0.0.1:{server.port}"


def client(service):
    return boto3.client(
        service, endpoint_url=endpoint, region_name=REGION, aws_access_key_id="none", aws_secret_access_key="none"
    )


def make_bucket():
    iam = client("iam")
    iam.create_user(UserName="denoise")
    right = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [right]})
    iam.put_user_policy(UserName="denoise", PolicyName="all", PolicyDocument=policy)
    key = iam.create_access_key(UserName="denoise")["AccessKey"]
    place = {"LocationConstraint": REGION}
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
    return key["AccessKeyId"], key["SecretAccessKey"]


if __name__ == "__main__":
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    access, secret = make_bucket()
    app.credentials = Credentials(access, secret)
    settings = {
        "endpoint": endpoint,
        "region": REGION,
        "bucket": BUCKET,
        "accessKeyId": access,
        "secretAccessKey": secret,
    }
    print(json.dumps(settings), flush=True)
    sys.stdin.read()
    server.shutdown()
