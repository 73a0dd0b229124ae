// Reads a message as weir's gate and body decoder do, whole, byte by byte and as the input cuts it: the verdict, the
// payload and the end must be the same. What they accept has one reading: Boost.Beast takes it too, with the same
// method, target, fields, framing, body and end, and so is what weir sends on.
//
// Three differences are known, and no message is left out for them. Beast takes Proxy-Connection for Connection, so it
// gets such a field under another name. It keeps an HTTP/1.0 connection that says both keep-alive and close (RFC 9112,
// 9.3: close wins). And it reads trailers like fields of the head, so it may refuse one of framing, which weir drops.
//
// An input has a byte that chooses (bit 0: a response; bit 1: to HEAD), two bytes for the cuts, and the message.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <sstream>

#include "proxy/http/body_decoder.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/writing.hpp"
#include "tests/fuzz/beast_reading.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace weir::proxy::http;
using weir::fuzz::BeastReader;
using weir::fuzz::BeastReading;
using weir::fuzz::must;
using Pieces = std::vector<std::string_view>;

/// Finds the head as a reader does that gets these pieces.
std::optional<std::size_t> head_in(const Pieces& pieces) {
  std::string bytes;
  for (const auto piece : pieces) {
    const auto seen = bytes.size();
    bytes += piece;
    if (const auto length = head_length(bytes, seen)) return length;
  }
  return std::nullopt;
}

struct Body {
  std::string payload;
  std::size_t consumed = 0;
  bool finished = false, failed = false;
  bool operator==(const Body&) const = default;
};

Body body_of(Framing framing, std::uint64_t length, const Pieces& pieces) {
  BodyDecoder decoder(framing, length);
  Body body;
  for (const auto piece : pieces) {
    if (decoder.finished() || decoder.failed()) break;
    std::string bytes(piece);
    const auto decoded = decoder.decode(bytes);
    must(decoded.consumed <= bytes.size(), "a decoder takes no more than it is given");
    must(decoded.payload.empty() || (decoded.payload.data() >= bytes.data() &&
                                     decoded.payload.data() + decoded.payload.size() <= bytes.data() + bytes.size()),
         "the payload lies in the piece");
    must(decoded.consumed == bytes.size() || decoder.finished() || decoder.failed(),
         "a decoder takes all until its end");
    body.payload.append(decoded.payload.data(), decoded.payload.size());
    body.consumed += decoded.consumed;
  }
  body.finished = decoder.finished();
  body.failed = decoder.failed();
  return body;
}

struct Cut {
  Pieces whole, bytewise, cut;
};

Pieces behind(const Pieces& pieces, std::size_t head) {
  Pieces rest;
  for (auto piece : pieces) {
    const auto dropped = std::min(head, piece.size());
    head -= dropped;
    piece.remove_prefix(dropped);
    if (!piece.empty()) rest.push_back(piece);
  }
  return rest;
}

Body same_body(Framing framing, std::uint64_t length, const Cut& cut, std::size_t head) {
  const auto whole = body_of(framing, length, behind(cut.whole, head));
  must(body_of(framing, length, behind(cut.bytewise, head)) == whole, "a body does not depend on the cuts");
  must(body_of(framing, length, behind(cut.cut, head)) == whole, "a body does not depend on the cuts");
  return whole;
}

std::size_t count(const std::vector<HeaderField>& fields, std::string_view name) {
  return static_cast<std::size_t>(
      std::ranges::count_if(fields, [&](const HeaderField& field) { return same_token(field.name, name); }));
}

/// The fields alone must say what the framing is, without any reader's help.
void must_be_framed_once(const std::vector<HeaderField>& fields, bool http_1_1) {
  must(count(fields, "content-length") + count(fields, "transfer-encoding") <= 1, "a head says its framing once");
  for (const auto& field : fields) {
    if (same_token(field.name, "transfer-encoding"))
      must(same_token(field.value, "chunked") && http_1_1, "the one coding is chunked");
    if (same_token(field.name, "content-length"))
      must(!field.value.empty() && field.value.size() <= 20 &&
               field.value.find_first_not_of("0123456789") == std::string_view::npos,
           "a length is a number");
    must(is_token(field.name) && is_value(field.value), "a field is one line");
  }
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

/// Returns what Connection names, in small letters.
std::set<std::string> options_of(const std::vector<HeaderField>& fields) {
  std::string all;
  for (const auto& field : fields)
    if (same_token(field.name, "connection")) all += ',' + lower(field.value);
  std::erase_if(all, [](char c) { return c == ' ' || c == '\t'; });
  std::set<std::string> options;
  std::istringstream list(all);
  for (std::string option; std::getline(list, option, ',');) options.insert(option);
  return options;
}

void must_have_the_head(const std::vector<HeaderField>& fields, bool http_1_1, const BeastReading& beast) {
  must(beast.has_head, "Beast takes a head that the gate takes");
  must(beast.version == (http_1_1 ? 11 : 10), "Beast has the same version");
  must(fields.size() == beast.fields.size(), "Beast has as many fields");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string_view name = fields[i].name, other = beast.fields[i].first;
    const bool renamed = same_token(name, "proxy-connection") && other.front() == 'X';
    must(renamed ? name.substr(1) == other.substr(1) : name == other, "Beast has the same names");
    must(fields[i].value == beast.fields[i].second, "Beast has the same values");
  }
}

void must_keep_alive_alike(bool keep_alive, const std::vector<HeaderField>& fields, bool http_1_1,
                           const BeastReading& beast) {
  const bool both = !http_1_1 && options_of(fields).contains("close");
  must(keep_alive == (beast.keep_alive && !both), "Beast keeps the connection too");
}

void must_agree_on_framing(Framing framing, std::uint64_t length, const BeastReading& beast) {
  must((framing == Framing::chunked) == beast.chunked, "Beast sees the same chunked");
  must((framing == Framing::length) == beast.length.has_value(), "Beast sees a length too");
  if (framing == Framing::length) must(beast.length == length, "Beast has the same length");
}

/// True if a line of the body begins with a field that Beast acts on.
bool may_have_a_trailer_of_framing(std::string_view body) {
  constexpr std::array<std::string_view, 4> names{"connection", "proxy-connection", "content-length",
                                                  "transfer-encoding"};
  for (auto at = body.find("\r\n"); at != body.npos; at = body.find("\r\n", at + 1)) {
    const auto line = body.substr(at + 2);
    for (const auto name : names)
      if (same_token(line.substr(0, name.size()), name)) return true;
  }
  return false;
}

/// The decoder may be stricter than Beast. What it takes Beast takes, and where one sees the end the other does.
void must_have_the_body(const Body& body, std::string_view bytes, std::size_t head, const BeastReading& beast) {
  if (body.failed) return;
  if (beast.error) {
    using boost::beast::http::error;
    const bool of_field = beast.error == error::bad_value || beast.error == error::bad_content_length ||
                          beast.error == error::multiple_content_length || beast.error == error::bad_transfer_encoding;
    return must(of_field && may_have_a_trailer_of_framing(bytes.substr(head)), "Beast takes such a body");
  }
  must(body.finished == beast.done, "Beast sees the end as well");
  must(body.payload == beast.body, "Beast has the same body");
  if (body.finished) must(head + body.consumed == beast.consumed, "Beast ends at the same byte");
}

/// Writes the name of each Proxy-Connection field with another first letter, in place.
std::string without_proxy_connection(std::string_view bytes, const std::vector<HeaderField>& fields) {
  std::string other(bytes);
  for (const auto& field : fields)
    if (same_token(field.name, "proxy-connection"))
      other[static_cast<std::size_t>(field.name.data() - bytes.data())] = 'X';
  return other;
}

/// A message that goes on has nothing that belongs to one connection.
void must_end_here(const BeastReading& sent, const std::vector<HeaderField>& fields) {
  static const std::set<std::string> own{"connection", "x-request-id", "x-weir-id"};
  static const std::set<std::string> hop_by_hop{"te", "upgrade", "proxy-connection", "keep-alive", "trailer"};
  must(sent.has_head && !sent.error, "what weir sends on is well-formed");
  const auto options = options_of(fields);
  for (const auto& [name, value] : sent.fields) {
    must(!hop_by_hop.contains(lower(name)), "what belongs to one connection ends here");
    must(own.contains(lower(name)) || !options.contains(lower(name)), "what Connection names ends here");
  }
}

std::size_t count(const BeastReading& sent, std::string_view name) {
  return static_cast<std::size_t>(
      std::ranges::count_if(sent.fields, [&](const auto& field) { return same_token(field.first, name); }));
}

/// The replica gets one message with one reading: this request's method, target and body.
void must_go_on_as_one_request(const RequestHead& head, const std::string& payload) {
  const weir::config::ReplicaUrl url{.host = "r", .port = 1, .prefix = "", .authority = "r:1"};
  UpstreamRequest request{.url = url};
  request.body_length = payload.size();
  request.request_id = "i";
  const auto sent = upstream_head(head, request) + payload;
  const auto beast = BeastReader<true>::read(sent);
  must_end_here(beast, head.fields);
  must(beast.method == head.method && beast.target == head.target && beast.version == 11, "a request stays itself");
  must(beast.body == payload && beast.done && beast.consumed == sent.size(), "a body stays itself");
  must(count(beast, "host") == 1 && count(beast, "transfer-encoding") == 0 && count(beast, "content-length") <= 1 &&
           count(beast, "connection") == 0 && count(beast, "expect") == 0,
       "weir itself says whose it is and where it ends");
}

void must_go_on_as_one_answer(const ResponseHead& head, const std::string& payload) {
  ClientAnswer answer;
  answer.framing = head.framing == Framing::none ? ClientFraming::none : ClientFraming::length;
  answer.length = payload.size();
  answer.request_id = answer.weir_id = "i";
  const auto sent = client_head(head, answer) + payload;
  const auto beast = BeastReader<false>::read(sent, head.framing == Framing::none);
  must_end_here(beast, head.fields);
  must(beast.status == head.status, "an answer keeps its status");
  must(beast.body == payload && beast.done && beast.consumed == sent.size(), "a body stays itself");
  must(count(beast, "transfer-encoding") == 0 && count(beast, "content-length") <= 1, "its framing is said once");
}

/// Returns the target as RFC 9112, 3.2, reads it, in origin-form or asterisk-form.
std::string_view path_and_query(std::string_view target, std::string_view method) {
  if (target.starts_with('/') || target == "*") return target;
  must(target.size() > 7 && same_token(target.substr(0, 7), "http://"), "a target has one of three forms");
  const auto path = target.find('/', 7);
  if (path != target.npos) return target.substr(path);
  return method == "OPTIONS" ? "*" : "/";
}

void request(std::string_view bytes, std::size_t length, const Cut& cut) {
  const auto head = parse_request_head(bytes.substr(0, length));
  if (!head) {
    const auto refusal = refusal_of(head.error());
    return must(refusal.status >= 400 && refusal.status < 600 && !refusal.sentence.empty(), "a refusal says why");
  }
  must(head->fields.size() <= max_fields, "fields are few");
  must(count(head->fields, "host") == 1 || (!head->http_1_1 && count(head->fields, "host") == 0), "a host is one");
  must_be_framed_once(head->fields, head->http_1_1);
  const auto beast = BeastReader<true>::read(without_proxy_connection(bytes, head->fields));
  must_have_the_head(head->fields, head->http_1_1, beast);
  must(head->method == beast.method, "Beast has the same method");
  must(head->target == path_and_query(beast.target, beast.method), "Beast has the same target");
  must(head->path == head->target.substr(0, head->target.find('?')), "a path is the target up to its query");
  must_keep_alive_alike(head->keep_alive, head->fields, head->http_1_1, beast);
  must_agree_on_framing(head->framing, head->content_length, beast);
  must(head->framing != Framing::until_close && !beast.needs_end, "no request ends with its connection");
  const auto body = same_body(head->framing, head->content_length, cut, length);
  must_have_the_body(body, bytes, length, beast);
  if (body.finished) must_go_on_as_one_request(*head, body.payload);
}

void response(std::string_view bytes, std::size_t length, const Cut& cut, bool to_head) {
  const auto head = parse_response_head(bytes.substr(0, length), to_head);
  if (!head) return;
  must(head->status >= 100 && head->status <= 599, "a status is one");
  must(head->fields.size() <= max_fields, "fields are few");
  must_be_framed_once(head->fields, head->http_1_1);
  const auto body = same_body(head->framing, head->content_length, cut, length);
  auto canonical = without_proxy_connection(bytes, head->fields);
  // Beast wants the space behind the status that some servers leave out.
  const std::size_t added = canonical.compare(12, 2, "\r\n") == 0 ? 1 : 0;
  canonical.insert(12, added, ' ');
  const auto beast = BeastReader<false>::read(canonical, to_head);
  must_have_the_head(head->fields, head->http_1_1, beast);
  must(head->status == beast.status, "Beast has the same status");
  const bool bodiless = to_head || head->status < 200 || head->status == 204 || head->status == 304;
  must(bodiless == (head->framing == Framing::none), "such an answer has no body, and every other has one");
  if (bodiless) {
    must(beast.done && beast.consumed == length + added, "Beast sees no body either");
  } else {
    must_keep_alive_alike(head->keep_alive, head->fields, head->http_1_1, beast);
    must_agree_on_framing(head->framing, head->content_length, beast);
    must((head->framing == Framing::until_close) == beast.needs_end, "Beast too waits for the connection's end");
    auto read = beast;
    read.consumed -= added;
    must_have_the_body(body, bytes, length, read);
  }
  if (!body.failed && head->status >= 200) must_go_on_as_one_answer(*head, body.payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  weir::fuzz::Input input(bytes, size);
  const unsigned kind = input.take();
  const unsigned seed = input.take(), largest = input.take();
  weir::fuzz::Cuts cuts(seed, largest);
  const std::string_view message = input.rest();
  const Cut cut{message.empty() ? Pieces{} : Pieces{message},
                weir::fuzz::pieces(message, [] { return std::size_t{1}; }),
                weir::fuzz::pieces(message, [&] { return cuts.next(); })};
  const auto length = head_in(cut.whole);
  must(head_in(cut.bytewise) == length && head_in(cut.cut) == length, "a head's end does not depend on the cuts");
  if (!length) return 0;
  (kind & 1) != 0 ? response(message, *length, cut, (kind & 2) != 0) : request(message, *length, cut);
  return 0;
}
