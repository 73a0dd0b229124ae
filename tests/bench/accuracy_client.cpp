// bench_accuracy_client asks for streams on known schedules, and notes what other tools would have said of them.
//
// Usage: bench_accuracy_client --port P --log FILE SCHEDULE:STREAMS:TOKENS:SECONDS... Each argument starts STREAMS
// requests of TOKENS tokens each for model SCHEDULE-NUMBER, evenly over SECONDS, all schedules beside each other. The
// program reads every answer to its end, and adds a line for each to FILE, in nanoseconds of CLOCK_MONOTONIC:
//
//   {"model","sent","first_byte","first_chunk","last_chunk","chunks","first_content","last_content","comment"}
//
// sent is the moment before the send of the request. first_byte is that of the body, a comment's too. A chunk is an
// event with a choice, which vLLM's bench takes for a token. content is an event with non-empty content, which LLMPerf
// takes for one. comment says that one came before the first content: LLMPerf breaks off there, because it takes every
// line for JSON behind six characters. Moments are the kernel's receive stamps, so the tools differ here by their
// definitions, not by how late each reads. The program rests half a millisecond between looks at its sockets for the
// reason that bench_client does. It has one thread, ends by itself after 120 s at the latest, and exits 1 if a stream
// was not whole.
#include <array>
#include <vector>

#include "tests/bench/relay_sockets.hpp"
#include "tests/http.hpp"

namespace {

using namespace weir::bench;

constexpr std::uint64_t second = 1'000'000'000;

struct Stream {
  std::string model;
  std::uint64_t tokens = 0, start = 0;  ///< When it is to start.
  int fd = -1;
  std::string unread;  ///< A head that is not yet whole.
  std::string events;  ///< The payload of an event that is not yet whole.
  weir::tests::BodyReader body{weir::tests::BodyReader::Framing::chunked, 0, weir::tests::BodyReader::Sizes::any};
  bool in_body = false;
  std::uint64_t sent = 0, first_byte = 0, first_chunk = 0, last_chunk = 0, chunks = 0;
  std::uint64_t first_content = 0, last_content = 0;
  bool comment = false;
};

void event(Stream& of, std::string_view text, std::uint64_t at) {
  constexpr std::string_view content = R"("content":")";
  if (text.starts_with(":")) of.comment |= of.first_content == 0;
  if (text.find(R"("choices":[{)") == std::string_view::npos) return;
  if (of.first_chunk == 0) of.first_chunk = at;
  of.last_chunk = at;
  ++of.chunks;
  const auto from = text.find(content);
  if (from == std::string_view::npos || text[from + content.size()] == '"') return;
  if (of.first_content == 0) of.first_content = at;
  of.last_content = at;
}

void read_body(Stream& of, std::uint64_t at) {
  of.body.read(std::exchange(of.unread, {}), [&](std::string_view payload) {
    if (of.first_byte == 0) of.first_byte = at;
    of.events.append(payload);
    for (std::size_t end; (end = of.events.find("\n\n")) != std::string::npos; of.events.erase(0, end + 2))
      event(of, std::string_view(of.events).substr(0, end), at);
  });
}

/// Returns false once nothing more is to come.
bool readable(Stream& of) {
  std::array<char, 16 * 1024> bytes;
  std::uint64_t at = 0;
  const auto size = read_stamped(of.fd, bytes, at);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (size <= 0) return false;
  of.unread.append(bytes.data(), static_cast<std::size_t>(size));
  if (!of.in_body) {
    const auto head = weir::tests::head_size(of.unread);
    if (!head) return true;
    if (!of.unread.starts_with("HTTP/1.1 200")) return false;
    of.unread.erase(0, *head);
    of.in_body = true;
  }
  read_body(of, at);
  return !of.body.whole();
}

void open(Stream& of, std::uint16_t port) {
  of.fd = stamped_connection(port);
  const bool counts = of.model.starts_with("several");
  const auto request = chat_request(
      of.tokens, of.model,
      counts ? R"(,"stream_options":{"include_usage":true,"continuous_usage_stats":true})" : std::string_view());
  of.sent = monotonic_ns();
  send_whole(of.fd, request);
}

/// Adds the streams of "SCHEDULE:STREAMS:TOKENS:SECONDS".
void add_streams(std::vector<Stream>& streams, const std::string& wanted, std::uint64_t now) {
  char name[32];
  unsigned long count = 0, tokens = 0;
  double seconds = 0;
  if (std::sscanf(wanted.c_str(), "%31[a-z]:%lu:%lu:%lf", name, &count, &tokens, &seconds) != 4)
    fail("bench_accuracy_client: '" + wanted + "' is not SCHEDULE:STREAMS:TOKENS:SECONDS");
  for (unsigned long i = 0; i < count; ++i) {
    char model[64];
    std::snprintf(model, sizeof model, "%s-%06lu", name, i);
    const double after = seconds * 1e9 * static_cast<double>(i) / static_cast<double>(count);
    auto& stream = streams.emplace_back();
    stream.model = model;
    stream.tokens = tokens;
    stream.start = now + static_cast<std::uint64_t>(after);
  }
}

void run(std::vector<Stream>& streams, std::uint16_t port) {
  const int set = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  const auto limit = monotonic_ns() + 120 * second;
  std::size_t open_streams = 0;
  for (std::size_t next = 0; next < streams.size() || open_streams > 0;) {
    for (; next < streams.size() && streams[next].start <= monotonic_ns(); ++next, ++open_streams) {
      open(streams[next], port);
      watch(set, streams[next].fd, EPOLLIN, next);
    }
    const auto read = [&](std::uint64_t at) {
      if (readable(streams[at])) return;
      ::close(streams[at].fd);
      --open_streams;
    };
    read_ready(set, read, 500'000);
    if (monotonic_ns() > limit)
      fail("bench_accuracy_client: not over within 120 s, " + std::to_string(open_streams) + " streams open");
  }
}

/// Writes the log. Returns how many streams did not come through whole.
std::size_t write_log(const std::vector<Stream>& streams, const char* path) {
  std::FILE* const log = std::fopen(path, "a");
  if (log == nullptr) fail(std::string("bench_accuracy_client: cannot write to ") + path);
  const auto whole = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::size_t broken = 0;
  for (const auto& one : streams) {
    if (!one.body.whole()) ++broken;
    std::fprintf(log,
                 R"({"model":"%s","sent":%llu,"first_byte":%llu,"first_chunk":%llu,"last_chunk":%llu,"chunks":%llu,)"
                 R"("first_content":%llu,"last_content":%llu,"comment":%s})"
                 "\n",
                 one.model.c_str(), whole(one.sent), whole(one.first_byte), whole(one.first_chunk),
                 whole(one.last_chunk), whole(one.chunks), whole(one.first_content), whole(one.last_content),
                 one.comment ? "true" : "false");
  }
  if (std::fclose(log) != 0) fail("bench_accuracy_client: the log could not be written whole");
  return broken;
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  const auto port = static_cast<std::uint16_t>(option(argc, argv, "--port", 0));
  const char* const log = text_option(argc, argv, "--log", nullptr);
  if (port == 0 || log == nullptr || argc < 6)
    fail("bench_accuracy_client: --port P --log FILE SCHEDULE:... are needed");
  std::vector<Stream> streams;
  const auto now = monotonic_ns() + second / 10;
  for (int i = 5; i < argc; ++i) add_streams(streams, argv[i], now);
  std::stable_sort(streams.begin(), streams.end(), [](const Stream& a, const Stream& b) { return a.start < b.start; });
  run(streams, port);
  const auto broken = write_log(streams, log);
  if (broken > 0) fail("bench_accuracy_client: " + std::to_string(broken) + " streams were not whole");
}
