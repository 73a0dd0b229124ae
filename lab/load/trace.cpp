#include "lab/load/trace.hpp"

#include <fstream>
#include <stdexcept>

#include "lab/load/traces/formats.hpp"

namespace weir::lab::load {
namespace traces {

void trim(std::string& line) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
}

Trace read_lines(std::istream& in, std::string first, std::size_t limit, bool in_order,
                 const std::function<Entry(std::string_view)>& read) {
  std::vector<TraceEntry> entries;
  std::string line = std::move(first);
  std::size_t number = 1;
  do {
    trim(line);
    if (line.empty()) continue;
    Entry entry = read(line);
    if (const auto* wrong = std::get_if<std::string>(&entry)) return "line " + std::to_string(number) + ": " + *wrong;
    auto* const found = std::get_if<TraceEntry>(&entry);
    if (!found) continue;
    if (in_order && !entries.empty() && found->at < entries.back().at) {
      return "line " + std::to_string(number) + ": its time is before that of the line above";
    }
    entries.push_back(std::move(*found));
    if (limit != 0 && entries.size() == limit) break;
  } while (++number, std::getline(in, line));
  return entries;
}

}  // namespace traces

namespace {

traces::Trace read_any(std::istream& in, std::size_t limit, std::uint64_t& left_out) {
  std::string first;
  std::getline(in, first);
  traces::trim(first);
  if (first == traces::azure_columns) return traces::read_azure(in, limit);
  if (traces::is_bailian(first)) return traces::read_bailian(in, std::move(first), limit);
  if (traces::is_mooncake(first)) return traces::read_mooncake(in, std::move(first), limit);
  if (traces::is_request_log(first)) return traces::read_request_log(in, std::move(first), limit, left_out);
  return "line 1: expected the columns " + std::string(traces::azure_columns) +
         " (Azure), a line of weir's request log, or {\"timestamp\": ..., \"input_length\": ...} (Mooncake; with "
         "\"chat_id\" Qwen-Bailian), got \"" +
         first.substr(0, 100) + "\"";
}

}  // namespace

std::variant<std::vector<TraceEntry>, std::string> read_trace(std::istream& in, std::size_t limit,
                                                              std::uint64_t* left_out) {
  std::uint64_t without_lengths = 0;
  traces::Trace trace = read_any(in, limit, without_lengths);
  if (left_out) *left_out = without_lengths;
  const auto* const entries = std::get_if<std::vector<TraceEntry>>(&trace);
  if (!entries || !entries->empty()) return trace;
  if (without_lengths == 0) return "it has no entries";
  return "none of its lines tells the lengths of its request: prompt_tokens or prompt_tokens_estimate, and "
         "output_tokens or max_tokens";
}

std::vector<TraceEntry> read_trace_file(const std::string& path, std::size_t limit, std::uint64_t* left_out) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument("cannot read the trace " + path);
  auto read = read_trace(file, limit, left_out);
  if (const auto* wrong = std::get_if<std::string>(&read)) throw std::invalid_argument(path + ": " + *wrong);
  return std::get<std::vector<TraceEntry>>(std::move(read));
}

}  // namespace weir::lab::load
