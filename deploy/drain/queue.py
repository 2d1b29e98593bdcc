"""The SQS queue of interruptions."""

from __future__ import annotations

from typing import Any, NamedTuple

from deploy import aws

LONG_POLL_S = 20
# A drain that takes longer is not begun twice by one process; by another it may be, which does no harm.
VISIBILITY_S = 60


class Message(NamedTuple):
    """`receipt`: with which it is deleted."""

    id: str
    receipt: str
    body: str


class Queue(NamedTuple):
    """Its methods raise DeployError."""

    client: Any
    url: str

    @classmethod
    def open(cls, name: str) -> Queue:
        """By its name or its URL."""
        client = aws.client("sqs")
        if name.startswith(("https://", "http://")):
            return cls(client, name)
        with aws.explained(f"queue {name}"):
            return cls(client, client.get_queue_url(QueueName=name)["QueueUrl"])

    def receive(self, wait_s: int) -> list[Message]:
        """Up to ten; none when nothing comes within `wait_s`."""
        with aws.explained(f"queue {self.url}"):
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=10,
                WaitTimeSeconds=wait_s,
                VisibilityTimeout=VISIBILITY_S,
            )
        return [
            Message(each["MessageId"], each["ReceiptHandle"], each["Body"])
            for each in answer.get("Messages", [])
        ]

    def delete(self, message: Message) -> None:
        with aws.explained(f"queue {self.url}"):
            self.client.delete_message(QueueUrl=self.url, ReceiptHandle=message.receipt)
