output "topic_arn" {
  description = "ARN of the topic; what publishes to it must be let in by its policy or a role."
  value       = aws_sns_topic_policy.this.arn
}
