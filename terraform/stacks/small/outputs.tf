output "base_url" {
  description = "Base URL of OpenAI clients."
  value       = module.api.base_url
}

output "api_keys_secret" {
  description = "Secret with the API's keys, one per line; a random first one is in it."
  value       = module.function.api_keys_secret
}

output "alerts_topic" {
  description = "Topic of alarms, budgets and anomalies."
  value       = module.alerts.topic_arn
}

output "stage_arn" {
  description = "The API's stage, to associate a web ACL with."
  value       = module.api.stage_arn
}
