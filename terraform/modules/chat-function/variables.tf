variable "name" {
  description = "Name of the function and prefix of what belongs to it."
  type        = string
}

variable "package" {
  description = "Zip file with the handler's code, and its base64 SHA-256."
  type        = object({ path = string, sha256 = string })
}

variable "region" {
  description = "Region, for ARNs."
  type        = string
}

variable "account_id" {
  description = "Account, for ARNs."
  type        = string
}

variable "model_id" {
  description = "Bedrock model or inference profile that answers, e.g. eu.anthropic.claude-haiku-4-5-20251001-v1:0."
  type        = string

  validation {
    condition     = can(regex("^([a-z-]+\\.)?[a-z0-9-]+\\.[a-z0-9.:-]+$", var.model_id))
    error_message = "model_id must be a Bedrock model id (PROVIDER.MODEL) or an inference profile (REGION.PROVIDER.MODEL)."
  }
}

variable "cache_table" {
  description = "DynamoDB table of answers."
  type        = object({ name = string, arn = string })
}

variable "cache_ttl_s" {
  description = "Seconds that an answer is used again."
  type        = number
  default     = 86400

  validation {
    condition     = var.cache_ttl_s >= 1
    error_message = "cache_ttl_s must be at least 1."
  }
}

variable "forbidden_patterns" {
  description = "Regular expressions (Python's, case-insensitive); a request whose text matches one is refused."
  type        = list(string)
  default     = []
}

variable "max_prompt_tokens" {
  description = "Longest prompt, in tokens as the handler estimates them."
  type        = number
  default     = 8192

  validation {
    condition     = var.max_prompt_tokens >= 1 && var.max_prompt_tokens <= 200000
    error_message = "max_prompt_tokens must be from 1 to 200000."
  }
}

variable "allowed_origins" {
  description = "Origins of web pages that may call the API."
  type        = list(string)
  default     = []
}

variable "kms_key_arn" {
  description = "Key of cache, API keys and settings."
  type        = string
}

variable "log_group" {
  description = "Group of the function's log lines."
  type        = object({ name = string, arn = string })
}

variable "concurrency" {
  description = "Requests answered at once: a cap on what a burst can cost."
  type        = number
  default     = 10

  validation {
    condition     = var.concurrency >= 1
    error_message = "concurrency must be at least 1."
  }
}

variable "timeout_s" {
  description = "Longest answer, in seconds."
  type        = number
  default     = 300

  validation {
    condition     = var.timeout_s >= 30 && var.timeout_s <= 900
    error_message = "timeout_s must be from 30 to 900, Lambda's limit."
  }
}
