output "role_arn" {
  description = "Role of the controller."
  value       = module.controller.role_arn
}
