#include "lab/load/trace.hpp"

#include <stdexcept>

#include "lab/load/traces/formats.hpp"
#include "lab/text.hpp"

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

struct Format {
  std::string_view first_line;  ///< What it has to be, for an error.
  bool (*is)(std::string_view first_line);
  traces::Trace (*read)(std::istream& in, std::string first_line, std::size_t limit, LogFacts& facts);
};
/// The first that fits is read: a line of Bailian's has the members of Mooncake's, too.
constexpr Format formats[] = {
    {"the columns TIMESTAMP,ContextTokens,GeneratedTokens (Azure) or Timestamp,Request tokens,Response tokens "
     "(BurstGPT)",
     traces::is_csv, traces::read_csv},
    {"a line of weir's request log", traces::is_request_log, traces::read_request_log},
    {"{\"chat_id\": ..., \"timestamp\": ..., \"input_length\": ...} (Qwen-Bailian)", traces::is_bailian,
     traces::read_bailian},
    {"{\"timestamp\": ..., \"input_length\": ...} (Mooncake; AIPerf also session_id, delay, text_input)",
     traces::is_mooncake, traces::read_mooncake},
};

traces::Trace read_any(std::istream& in, std::size_t limit, LogFacts& facts) {
  std::string first;
  std::getline(in, first);
  traces::trim(first);
  if (constexpr std::string_view mark = "\xef\xbb\xbf"; first.starts_with(mark)) first.erase(0, mark.size());
  if (is_compressed(first)) return std::string(compressed_file);
  for (const Format& format : formats)
    if (format.is(first)) return format.read(in, std::move(first), limit, facts);
  std::string expected;
  for (const Format& format : formats) expected += (expected.empty() ? "" : ", or ") + std::string(format.first_line);
  return "line 1: expected " + expected + ", got \"" + beginning_of(first) + "\"";
}

}  // namespace

double LogFacts::unexplained() const {
  return cached_tokens == 0 ? 0 : static_cast<double>(unexplained_tokens) / static_cast<double>(cached_tokens);
}

std::string LogFacts::left_out() const {
  std::string what;
  if (refused > 0) what = counted(refused, "request") + " that got a status of 4xx or that no replica was asked for";
  if (without_lengths > 0)
    what += (what.empty() ? "" : " and ") + counted(without_lengths, "line") + " without the lengths of a request";
  if (damaged > 0) {
    what += (what.empty() ? "" : " and ") + counted(damaged, "line") + " that cannot be read as " +
            (damaged == 1 ? "a line" : "lines") + " of a request log";
  }
  return what.empty() ? what : "left out " + what;
}

std::string LogFacts::warning() const {
  constexpr double most_unexplained = 0.05;
  if (unexplained() <= most_unexplained) return "";
  return fmt::format("{:.0f} %", 100 * unexplained()) +
         " of the prompt tokens that replicas found in their caches are shared by prompts in ways that " +
         (keyed > 0 ? "the log's keys do not tell: with earlier requests, or across clients with keys of their own"
                    : "the log does not tell, such as a common system prompt; with [log] prefixes = true weir's log "
                      "tells them") +
         ". Prompts that are made of this log share less";
}

std::variant<std::vector<TraceEntry>, std::string> read_trace(std::istream& in, std::size_t limit, LogFacts* facts) {
  LogFacts found;
  traces::Trace trace = read_any(in, limit, found);
  if (facts) *facts = found;
  const auto* const entries = std::get_if<std::vector<TraceEntry>>(&trace);
  if (!entries || !entries->empty()) return trace;
  if (found.without_lengths > 0) {
    return "none of its lines tells the lengths of its request: prompt_tokens or prompt_tokens_estimate, and "
           "output_tokens or max_tokens";
  }
  return found.refused > 0 ? "all its requests were refused" : "it has no entries";
}

std::vector<TraceEntry> read_trace_file(const std::string& path, std::size_t limit, LogFacts* facts) {
  auto file = opened("the trace ", path);
  auto read = read_trace(file, limit, facts);
  if (const auto* wrong = std::get_if<std::string>(&read)) throw std::invalid_argument(path + ": " + *wrong);
  return std::get<std::vector<TraceEntry>>(std::move(read));
}

}  // namespace weir::lab::load
