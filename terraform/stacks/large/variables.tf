variable "name" {
  description = "Name of the installation: prefix of every name, and the value of the tag Project that costs are counted by."
  type        = string
  default     = "canopy"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,20}[a-z0-9]$", var.name))
    error_message = "name must be 3 to 22 characters: lower-case letters, digits and hyphens, a letter first."
  }
}

variable "environment" {
  description = "Tag Environment: dev, staging or prod."
  type        = string

  validation {
    condition     = contains(["dev", "staging", "prod"], var.environment)
    error_message = "environment must be dev, staging or prod."
  }
}

variable "owner" {
  description = "Tag Owner: the team that answers for the costs."
  type        = string

  validation {
    condition     = length(trimspace(var.owner)) > 0
    error_message = "owner must name the team that answers for the costs."
  }
}

variable "region" {
  description = "AWS region."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region must be a region's code, e.g. eu-central-1."
  }
}

variable "alert_emails" {
  description = "Addresses that get alerts; each has to confirm once."
  type        = set(string)
  default     = []
}

variable "pagerduty_url" {
  description = "Integration URL of a PagerDuty service; null: none."
  type        = string
  default     = null
  sensitive   = true
}

variable "slack" {
  description = "Slack workspace (T...) and channel (C...) ids that get alerts; null: none."
  type        = object({ workspace_id = string, channel_id = string })
  default     = null
}

variable "monthly_budget_usd" {
  description = "What a month may cost; alerts at 80% spent and at 100% forecast."
  type        = number
}

variable "anomaly_usd" {
  description = "A day's unexpected cost that is worth an alert."
  type        = number
  default     = 20
}

variable "activate_cost_tags" {
  description = "Whether to activate the tags for cost allocation. Only from the second apply on: AWS knows a tag about a day after its first use."
  type        = bool
  default     = false
}

variable "trail" {
  description = "Whether to record the account's API calls; false where a trail exists already."
  type        = bool
  default     = true
}

variable "access_analyzer" {
  description = "Whether to look for resources open to other accounts; false where an analyzer exists already."
  type        = bool
  default     = true
}

