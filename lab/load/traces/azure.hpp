// Azure's traces of LLM inference (AzurePublicDataset): a CSV of arrivals and lengths.
#pragma once

#include "lab/load/traces/format.hpp"

namespace weir::lab::load::traces {

inline constexpr std::string_view azure_columns = "TIMESTAMP,ContextTokens,GeneratedTokens";

/// Reads lines such as "2023-11-16 18:17:03.9799600,4808,10" behind the line of the columns.
Trace read_azure(std::istream& in, std::size_t limit);

}  // namespace weir::lab::load::traces
