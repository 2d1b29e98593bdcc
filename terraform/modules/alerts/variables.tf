variable "name" {
  description = "Name of the topic."
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the topic; it must let cloudwatch, budgets and costalerts use it."
  type        = string
}

variable "emails" {
  description = "Addresses that get every alert; each has to confirm once."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for address in var.emails : can(regex("^[^@ ]+@[^@ ]+$", address))])
    error_message = "emails must be e-mail addresses."
  }
}

variable "pagerduty_url" {
  description = "Integration URL of a PagerDuty service (Amazon CloudWatch integration); null: none."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.pagerduty_url == null || can(regex("^https://events\\.(eu\\.)?pagerduty\\.com/integration/", var.pagerduty_url))
    error_message = "pagerduty_url must be an integration URL: https://events.pagerduty.com/integration/KEY/enqueue."
  }
}

variable "slack" {
  description = "Slack workspace (T...) and channel (C...) ids; null: none. The workspace is authorised once in the console of Amazon Q Developer in chat applications."
  type        = object({ workspace_id = string, channel_id = string })
  default     = null

  validation {
    condition     = var.slack == null || can(regex("^T[A-Z0-9]+$", var.slack.workspace_id)) && can(regex("^[CG][A-Z0-9]+$", var.slack.channel_id))
    error_message = "slack.workspace_id begins with T and slack.channel_id with C or G; both are ids, not names."
  }
}
