// Reads a message as weir's gate and body decoder do, whole, byte by byte and as the input cuts it: the verdict, the
// fields, the payload and the end must be the same. What they accept Boost.Beast must read in the same way.
//
// An input has a byte that chooses (bit 0: a response; bit 1: to HEAD), two bytes for the cuts, and the message.
#include <algorithm>
#include <optional>
#include <span>

#include "proxy/http/body_decoder.hpp"
#include "proxy/http/head.hpp"
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
  if (body.failed) body.consumed = 0;  // Nothing of the connection is used any more.
  return body;
}

void must_have_the_fields(const std::vector<HeaderField>& fields, const BeastReading& beast) {
  must(fields.size() == beast.fields.size(), "Beast has as many fields");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    must(fields[i].name == beast.fields[i].first, "Beast has the same names");
    must(fields[i].value == beast.fields[i].second, "Beast has the same values");
  }
}

/// Of the two readers, the gate may be stricter. Where both see an end, it is the same one.
void must_have_the_body(const Body& body, std::size_t head, const BeastReading& beast) {
  if (body.failed || beast.error) return;
  must(body.finished == beast.done, "Beast sees the end as well");
  must(body.payload == beast.body, "Beast has the same body");
  if (body.finished) must(head + body.consumed == beast.consumed, "Beast ends at the same byte");
}

/// Beast refuses a Connection field that is no list of tokens. The gate skips what is none, and sends no such field on.
bool refuses_the_options(const BeastReading& beast, const std::vector<HeaderField>& fields) {
  return beast.error == boost::beast::http::error::bad_value &&
         std::ranges::any_of(fields, [](const HeaderField& field) {
           return same_token(field.name, "connection") || same_token(field.name, "proxy-connection");
         });
}

void must_agree_on_framing(Framing framing, std::uint64_t length, const BeastReading& beast) {
  must((framing == Framing::chunked) == beast.chunked, "Beast sees the same chunked");
  if (framing == Framing::length) must(beast.length == length, "Beast has the same length");
}

struct Cut {
  Pieces whole, bytewise, cut;
  Pieces rest_of(const Pieces& pieces, std::size_t head) const {
    Pieces rest;
    for (auto piece : pieces) {
      const auto dropped = std::min(head, piece.size());
      head -= dropped;
      piece.remove_prefix(dropped);
      if (!piece.empty()) rest.push_back(piece);
    }
    return rest;
  }
};

Body same_body(Framing framing, std::uint64_t length, const Cut& cut, std::size_t head) {
  const auto whole = body_of(framing, length, cut.rest_of(cut.whole, head));
  must(body_of(framing, length, cut.rest_of(cut.bytewise, head)) == whole, "a body does not depend on the cuts");
  must(body_of(framing, length, cut.rest_of(cut.cut, head)) == whole, "a body does not depend on the cuts");
  return whole;
}

void request(std::string_view bytes, std::size_t length, const Cut& cut) {
  const auto head = parse_request_head(bytes.substr(0, length));
  if (!head) {
    const auto refusal = refusal_of(head.error());
    return must(refusal.status >= 400 && refusal.status < 600 && !refusal.sentence.empty(), "a refusal says why");
  }
  must(head->fields.size() <= max_fields, "fields are few");
  must(head->target.starts_with('/') || head->target == "*", "the target is in origin-form or asterisk-form");
  const auto beast = BeastReader<true>::read(bytes);
  if (refuses_the_options(beast, head->fields)) return;
  must(beast.has_head, "Beast takes a head that the gate takes");
  must(head->method == beast.method, "Beast has the same method");
  must(std::string_view(beast.target).ends_with(head->target) || head->target == "/" || head->target == "*" ||
           head->target.starts_with("/?"),
       "Beast has the same target");
  must(beast.version == (head->http_1_1 ? 11 : 10), "Beast has the same version");
  must_have_the_fields(head->fields, beast);
  must_agree_on_framing(head->framing, head->content_length, beast);
  must(head->framing != Framing::until_close && !beast.needs_end, "no request ends with its connection");
  must_have_the_body(same_body(head->framing, head->content_length, cut, length), length, beast);
}

void response(std::string_view bytes, std::size_t length, const Cut& cut, bool to_head) {
  const auto head = parse_response_head(bytes.substr(0, length), to_head);
  if (!head) return;
  must(head->status >= 100 && head->status <= 599, "a status is one");
  must(head->fields.size() <= max_fields, "fields are few");
  const auto body = same_body(head->framing, head->content_length, cut, length);
  // Beast wants the space behind the status that servers leave out, and no control characters in the reason, which
  // ends here.
  const auto line_end = bytes.find("\r\n");
  const auto canonical = std::string(bytes.substr(0, 12)) + " OK" + std::string(bytes.substr(line_end));
  const auto moved = canonical.size() - bytes.size();
  auto beast = BeastReader<false>::read(canonical, to_head);
  if (refuses_the_options(beast, head->fields)) return;
  must(beast.has_head, "Beast takes a head that the gate takes");
  must(head->status == beast.status, "Beast has the same status");
  must(beast.version == (head->http_1_1 ? 11 : 10), "Beast has the same version");
  must_have_the_fields(head->fields, beast);
  const bool bodiless = to_head || head->status < 200 || head->status == 204 || head->status == 304;
  must(!bodiless || head->framing == Framing::none, "such an answer has no body");
  if (bodiless) return;
  must_agree_on_framing(head->framing, head->content_length, beast);
  must((head->framing == Framing::until_close) == beast.needs_end, "Beast too waits for the connection's end");
  beast.consumed -= moved;
  must_have_the_body(body, length, beast);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  weir::fuzz::Input input(bytes, size);
  const unsigned kind = input.take();
  weir::fuzz::Cuts cuts(input.take(), input.take());
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
