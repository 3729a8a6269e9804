"""Build the sprite sheet and the vocabulary of `beholder.scenes` from a colour emoji font and Unicode CLDR names.

Needs fontTools and two Debian packages, unpacked anywhere (``apt-get download``, then ``dpkg -x``):
``fonts-noto-color-emoji`` (the glyphs, SIL OFL 1.1) and ``unicode-cldr-core`` (English names and keywords).

    python tools/build_scene_assets.py --root UNPACKED --out src/beholder/assets/scenes
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from PIL import Image

CELL = 128
COLUMNS = 20

# Everyday objects with one clear picture each; near-duplicates (faces, clocks, hearts, people, hands) are left out.
CHOSEN = {
    "animal": "🐒🦍🐕🐺🦊🦝🐈🦁🐅🐎🦄🦓🦌🐄🐖🐑🐐🐪🦙🦒🐘🦏🦛🐁🐹🐇🐿🦔🦇🐻🐨🐼🦘🦃🐓🐣🐧🕊🦅🦆🦢🦉🦩🦚🦜🐸🐊🐢🦎🐍🐉"
    "🦕🐋🐬🦭🐟🐡🦈🐙🐚🐌🦋🐛🐜🐝🐞🕷🦂🦀🦞🦐🦑",
    "plant": "💐🌹🌻🌷🌱🪴🌲🌳🌴🌵🍀🍁🪷",
    "food": "🍇🍉🍋🍌🍍🍎🍐🍑🍒🍓🥝🍅🫒🥥🥑🍆🥔🥕🌽🌶🥒🥦🧅🍄🥜🥐🥖🥨🧇🧀🍗🥩🍔🍟🍕🌭🥪🌮🥚🍳🍿🍙🍝🍣🍦🍩🍪🎂"
    "🍰🧁🥧🍫🍬🍭🍯🥛🫖🍷🍸🍺🥤🧃🧊🥄",
    "place": "⛰🌋🏛🏠🏰🗼🗽⛪🕌⛩⛲⛺🎡🎪🌈🌪",
    "vehicle": "🚂🚅🚌🚑🚒🚕🚗🚚🚜🏍🛵🚲🛹🛼⛵🛶🚤🚢✈🪂🚁🛰🚀🛸🛒",
    "sport": "🎈🎃🎄🏆🏅⚽⚾🏀🏐🏈🎾🏓🏸🥊🎣🤿🛷🎯🪀🪁🎱🎮🎰🎲🧩🧸♟🎳",
    "clothing": "🕶🦺👔👕👖🧣🧥🧦👗👘👙🩳👜🎒👟🥾👠👢👑👒🎩🎓🪖💄💍💎☂",
    "music": "🔔🎤🎧📻🎷🪗🎸🎹🎺🎻🪕🥁📢",
    "thing": "☎📱🔋💻🖨💾💿🧮📺📷🔎🕯💡🔦📕📜📰💰🪙💳✉📦📮✏🖌🖍💼📁📅📌📎✂🔒🔑🔨🪓⛏🗡🪃🛡🪚🔧🪛⚙🧲🪜🧪🔬🔭📡💉💊🩺"
    "🚪🪞🪟🛏🛋🪑🚽🚿🛁🪒🧷🧹🧺🧻🪣🧼🪥🧽🧯⚰🪦🗿⚓🧭⌛⌚⏰🌡⭐❄⛄🔥💣🎁🎀🎨🧵🧶🏺🧱🪨🪵🦴🦷👻🤖👽🏮🚦🛑⚖🧳🪆🌙☁💧🔪🍼",
}

# Where the CLDR name is long, has an alternative that everyone uses, or would be ambiguous.
RENAMED = {
    "🧸": "teddy", "🐑": "sheep", "🐞": "ladybug", "🐝": "bee", "🐣": "hatching chick", "🐡": "blowfish",
    "🐚": "shell", "🌱": "seedling", "🌲": "pine tree", "🌳": "oak tree", "🍀": "clover", "🍎": "apple",
    "🍒": "cherry", "🍇": "bunch of grapes", "🥝": "kiwi", "🌽": "corn cob", "🌶": "chili pepper",
    "🥜": "peanut", "🥖": "baguette", "🧀": "piece of cheese", "🍗": "chicken leg", "🥩": "steak",
    "🍟": "box of fries", "🍳": "frying pan", "🍿": "box of popcorn", "🍝": "plate of spaghetti",
    "🍣": "piece of sushi", "🍦": "ice cream cone", "🥛": "glass of milk", "🍸": "martini",
    "🍺": "mug of beer", "🥤": "paper cup", "🧃": "juice box", "🧊": "ice cube", "🍰": "slice of cake",
    "🎂": "birthday cake", "🏛": "temple", "🗽": "statue", "🗼": "tower", "⛩": "shrine", "🎪": "circus tent",
    "🚂": "steam locomotive", "🚅": "train", "🚒": "fire truck", "🚗": "car", "🚚": "delivery truck",
    "🛵": "scooter", "🛼": "roller skate", "🚢": "ship", "🛸": "flying saucer", "🎃": "pumpkin",
    "⚽": "soccer ball", "🏈": "football", "🏓": "table tennis paddle", "🏸": "badminton racket",
    "🎣": "fishing rod", "🎯": "dartboard", "🎱": "billiard ball", "🎮": "gamepad", "🎲": "die",
    "🧩": "puzzle piece", "♟": "chess pawn", "🎳": "bowling pin", "🕶": "pair of sunglasses",
    "👔": "necktie", "👖": "pair of jeans", "🧦": "pair of socks", "🩳": "pair of shorts", "👟": "sneaker",
    "👠": "high heel", "👢": "tall boot", "👒": "sun hat", "🪖": "helmet", "💎": "gem", "🎧": "headphone",
    "🎹": "piano keyboard", "☎": "telephone", "📱": "mobile phone", "💾": "floppy disk",
    "💿": "compact disc", "🔎": "magnifying glass", "📕": "book", "💰": "bag of money", "💳": "credit card",
    "✉": "envelope", "📦": "cardboard box", "📮": "mailbox", "📁": "folder", "✂": "pair of scissors",
    "🔒": "padlock", "⛏": "pickaxe", "🪚": "saw", "📡": "satellite dish", "🛋": "couch", "🛁": "bathtub",
    "🧻": "roll of paper", "🧼": "bar of soap", "🗿": "stone head", "⌛": "hourglass", "⌚": "wristwatch",
    "⛄": "snowman", "🔥": "flame", "🎁": "gift", "🎀": "bow", "🎨": "palette", "🧵": "spool of thread",
    "🧶": "ball of yarn", "🏺": "vase", "🪵": "log", "🏮": "paper lantern", "🚦": "traffic light",
    "⚖": "balance scale", "🧳": "suitcase", "🪆": "nesting doll", "🌙": "crescent moon", "💧": "water drop",
    "🔪": "knife", "☂": "umbrella", "🦄": "unicorn", "🐖": "pig", "🪂": "parachute", "🛰": "satellite",
    "✈": "airplane", "🫖": "teapot", "🍯": "honey pot", "🍙": "rice ball", "🍷": "glass of wine",
    "🪴": "potted plant", "🌴": "palm tree", "🏅": "medal", "🦺": "safety vest", "📜": "scroll", "🪙": "coin",
    "🪦": "gravestone", "🎄": "christmas tree", "🔬": "microscope", "🎩": "tophat", "📢": "megaphone",
    "🎤": "microphone", "🍭": "lollipop", "🍬": "candy", "🎓": "graduation cap", "⛪": "church", "🕊": "dove",
    "🐕": "dog", "🐟": "fish", "🛶": "canoe", "🍼": "baby bottle", "🌡": "thermometer", "🍔": "hamburger",
    "📰": "newspaper", "📌": "pushpin", "⭐": "star",
}  # fmt: skip

IRREGULAR = {
    "ox": "oxen", "mouse": "mice", "computer mouse": "computer mice", "wolf": "wolves",
    "sheep": "sheep", "fish": "fish", "tropical fish": "tropical fish", "blowfish": "blowfish",
    "deer": "deer", "bison": "bison", "squid": "squids", "shrimp": "shrimps",
    "fried shrimp": "fried shrimps", "die": "dice", "knife": "knives", "goose": "geese",
    "tooth": "teeth", "snowman": "snowmen", "autumn leaf": "autumn leaves",
    "maple leaf": "maple leaves", "bow and arrow": "bows and arrows",
    "shirt with a tie": "shirts with ties", "cup with a straw": "cups with straws",
    "water buffalo": "water buffaloes", "bubble tea": "bubble teas", "axe": "axes",
    "aircraft": "aircraft",
}  # fmt: skip


def plural(name: str) -> str:
    """The English plural of a countable name ("box of fries" -> "boxes of fries")."""
    if name in IRREGULAR:
        return IRREGULAR[name]
    if " of " in name:
        head, tail = name.split(" of ", 1)
        return f"{plural(head)} of {tail}"
    if name.endswith(("s", "x", "ch", "sh")):
        return name + "es"
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    if name.endswith(("tomato", "potato", "mango", "volcano", "flamingo", "tornado")):
        return name + "es"
    return name + "s"


def article(name: str) -> str:
    """ "a" or "an" by sound."""
    return "an" if name[0] in "aeiou" and not name.startswith(("uni", "ukulele")) else "a"


def annotations(root: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """CLDR English short names and keywords by character."""
    names: dict[str, str] = {}
    words: dict[str, list[str]] = {}
    path = next(p for p in root.rglob("en.xml") if p.parent.name == "annotations")
    for node in ET.parse(path).iter("annotation"):
        text = node.text or ""
        if node.get("type") == "tts":
            names[node.get("cp", "")] = text
        else:
            words[node.get("cp", "")] = [w.strip() for w in text.split("|")]
    return names, words


def glyphs(root: Path, characters: list[str]) -> dict[str, Image.Image]:
    """The bitmap glyph of each character, cropped to what is visible and centred on a square of CELL pixels."""
    from fontTools.ttLib import TTFont

    font = TTFont(next(root.rglob("NotoColorEmoji.ttf")))
    strike = font["CBDT"].strikeData[0]
    cmap = font.getBestCmap()
    out = {}
    for char in characters:
        data = strike[cmap[ord(char)]].imageData
        image = Image.open(io.BytesIO(data)).convert("RGBA")
        image = image.crop(image.getchannel("A").point(lambda v: 255 if v > 8 else 0).getbbox())
        if max(image.size) > CELL:
            scale = CELL / max(image.size)
            image = image.resize(
                (max(1, round(image.width * scale)), max(1, round(image.height * scale))), Image.Resampling.LANCZOS
            )
        cell = Image.new("RGBA", (CELL, CELL))
        cell.paste(image, ((CELL - image.width) // 2, (CELL - image.height) // 2))
        out[char] = cell
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="where the two packages were unpacked")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    names, words = annotations(args.root)
    entries = []
    for category, text in CHOSEN.items():
        for char in text:
            name = RENAMED.get(char, names[char].lower())
            keywords = sorted({w.lower() for w in words.get(char, [])} - {name})
            entries.append({"name": name, "plural": plural(name), "article": article(name), "category": category,
                            "character": char, "cldr_name": names[char], "keywords": keywords})  # fmt: skip
    seen = [e["name"] for e in entries]
    doubled = sorted({n for n in seen if seen.count(n) > 1})
    if doubled or any(re.search(r"[^a-z -]", n) for n in seen):
        clash = [n for n in seen if re.search(r"[^a-z -]", n)]
        sys.stderr.write(f"names that clash or hold other than a-z: {doubled} {clash}\n")
        return 1
    pictures = glyphs(args.root, [str(e["character"]) for e in entries])
    rows = -(-len(entries) // COLUMNS)
    sheet = Image.new("RGBA", (COLUMNS * CELL, rows * CELL))
    for index, entry in enumerate(entries):
        entry["cell"] = index
        sheet.paste(pictures[str(entry["character"])], (index % COLUMNS * CELL, index // COLUMNS * CELL))
    args.out.mkdir(parents=True, exist_ok=True)
    sheet.save(args.out / "sprites.png", optimize=True)
    head = {
        "cell": CELL,
        "columns": COLUMNS,
        "glyphs": "Noto Color Emoji (SIL OFL 1.1)",
        "names": "Unicode CLDR, English",
    }
    body = ",\n".join(json.dumps(e, ensure_ascii=False) for e in entries)
    text = json.dumps(head)[:-1] + ', "objects": [\n' + body + "\n]}\n"
    (args.out / "objects.json").write_text(text, encoding="utf-8")
    sys.stderr.write(f"{len(entries)} objects, sheet {sheet.size}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
