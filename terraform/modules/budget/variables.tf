variable "name" {
  description = "Prefix of every name."
  type        = string
}

variable "tag" {
  description = "Cost-allocation tag and value that mark what is ours."
  type        = object({ key = string, value = string })
}

variable "monthly_usd" {
  description = "What a month may cost. Alerts at 80% spent and at 100% forecast."
  type        = number

  validation {
    condition     = var.monthly_usd > 0
    error_message = "monthly_usd must be above 0."
  }
}

variable "anomaly_usd" {
  description = "A day's unexpected cost that is worth an alert."
  type        = number

  validation {
    condition     = var.anomaly_usd > 0
    error_message = "anomaly_usd must be above 0."
  }
}

variable "topic_arn" {
  description = "Topic of the alerts."
  type        = string
}

variable "activate_tags" {
  description = "Tags to activate for cost allocation. AWS knows a tag only about a day after its first use, so this follows the first apply; in an organisation the management account does it."
  type        = set(string)
  default     = []
}
