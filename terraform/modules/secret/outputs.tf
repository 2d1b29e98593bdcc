output "arn" {
  description = "ARN of the secret; known when it has a value."
  value       = aws_secretsmanager_secret_version.first.arn
}

output "name" {
  description = "Name of the secret."
  value       = aws_secretsmanager_secret.this.name
}
