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

variable "model_id" {
  description = "Bedrock model or inference profile that answers, e.g. eu.anthropic.claude-haiku-4-5-20251001-v1:0."
  type        = string
}

variable "cache_ttl_s" {
  description = "Seconds that an answer to a deterministic request is used again."
  type        = number
  default     = 86400
}

variable "max_prompt_tokens" {
  description = "Longest prompt, in tokens as the handler estimates them."
  type        = number
  default     = 8192
}

variable "forbidden_patterns" {
  description = "Regular expressions (Python's, case-insensitive); a request whose text matches one is refused."
  type        = list(string)
  default     = []
}

variable "allowed_origins" {
  description = "Origins of web pages that may call the API, e.g. https://chat.example.com; `*` alone: every page."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for origin in var.allowed_origins : origin == "*" || can(regex("^https?://[^/]+$", origin))])
    error_message = "allowed_origins are origins: scheme and host without a path, e.g. https://chat.example.com, or `*`."
  }
}

variable "throttle" {
  description = "Requests per second, and how many at once beyond that."
  type        = object({ rate = number, burst = number })
  default     = { rate = 5, burst = 10 }
}

variable "concurrency" {
  description = "Requests answered at once."
  type        = number
  default     = 10
}

variable "timeout_s" {
  description = "Longest answer, in seconds."
  type        = number
  default     = 300
}

variable "account_logging_role" {
  description = "Whether to give API Gateway its role for writing logs, a setting of the whole account and region; false where it is set."
  type        = bool
  default     = true
}
