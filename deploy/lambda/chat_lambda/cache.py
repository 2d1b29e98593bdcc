"""Answers of before, in DynamoDB. The cache may fail; requests do not fail with it."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from chat_lambda.answer import Answer
from chat_lambda.log import log


class Cache:
    """`client` is boto3's dynamodb. An item: request_hash, created_at (ms), expires_at (s), answer (JSON)."""

    def __init__(self, client: Any, table: str, ttl_s: int) -> None:
        self._client = client
        self._table = table
        self._ttl_s = ttl_s

    def get(self, key: str) -> Answer | None:
        """The newest answer that has not expired: DynamoDB may take two days to drop one."""
        try:
            found = self._client.query(
                TableName=self._table,
                KeyConditionExpression="request_hash = :key",
                ExpressionAttributeValues={":key": {"S": key}},
                ScanIndexForward=False,
                Limit=1,
            )["Items"]
        except (ClientError, BotoCoreError) as error:
            log("cache not read", error=str(error))
            return None
        if not found or int(found[0]["expires_at"]["N"]) <= time.time():
            return None
        return Answer.from_json(found[0]["answer"]["S"])

    def put(self, key: str, answer: Answer) -> None:
        """An answer too long for an item (400 KB) is not kept."""
        now = time.time()
        item = {
            "request_hash": {"S": key},
            "created_at": {"N": str(int(now * 1000))},
            "expires_at": {"N": str(int(now) + self._ttl_s)},
            "answer": {"S": answer.to_json()},
        }
        try:
            self._client.put_item(TableName=self._table, Item=item)
        except (ClientError, BotoCoreError) as error:
            log("cache not written", error=str(error))


def key_of(arguments: dict[str, Any]) -> str:
    """Of everything that the answer depends on."""
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()
