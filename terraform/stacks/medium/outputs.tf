output "load_balancer" {
  description = "Name that the clients' name is made an alias (or CNAME) of."
  value       = module.load_balancer.dns_name
}

output "load_balancer_arn" {
  description = "ARN of the load balancer, to associate a web ACL with."
  value       = module.load_balancer.arn
}

output "image_repository" {
  description = "Where the image is pushed to."
  value       = module.registry.urls["${var.name}/server"]
}

output "models_bucket" {
  description = "Bucket that models are pushed to."
  value       = module.models.name
}

output "api_keys_secret" {
  description = "Secret with the API's keys, separated by commas; a random first one is in it."
  value       = module.api_keys.name
}

output "alerts_topic" {
  description = "Topic of alarms, budgets and anomalies."
  value       = module.alerts.topic_arn
}
