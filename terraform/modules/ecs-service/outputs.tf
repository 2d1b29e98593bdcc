output "name" {
  description = "Name of the service."
  value       = aws_ecs_service.this.name
}
