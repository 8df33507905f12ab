"""Messages: how models travel, what replies are checked for, and how they are collected."""
