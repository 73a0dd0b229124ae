#include "lab/load/traces/formats.hpp"

namespace weir::lab::load::traces {

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

}  // namespace weir::lab::load::traces
