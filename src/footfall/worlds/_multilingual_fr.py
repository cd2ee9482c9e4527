"""The arithmetic world in French."""

from footfall.worlds._multilingual_words import Wordings

__all__ = ["WORDS"]

WORDS = Wordings(
    names={},
    items={
        "stickers": "vignettes", "marbles": "billes", "coins": "pièces", "shells": "coquillages", "beads": "perles",
        "cards": "cartes", "stamps": "timbres", "pencils": "crayons", "apples": "pommes", "buttons": "boutons",
        "books": "livres", "stones": "pierres", "nuts": "noix", "keys": "clés", "balls": "balles", "cups": "tasses",
    },
    she=("elle", "lui"),
    he=("il", "lui"),
    plain={
        "+": ("{Who} en achète {n} de plus.", "{Who} trouve {n} {item} de plus.", "Une amie {whom} donne {n} {item}.",
              "Puis on en ajoute {n}.", "{Who} gagne {n} {item} à un jeu."),
        "-": ("{Who} en perd {n}.", "{Who} donne {n} {item}.", "{Who} en vend {n}.", "Puis on en enlève {n}.",
              "{Who} laisse {n} {item} à la maison."),
        "*": ("Puis le nombre de {item} est multiplié par {n}.", "Puis chaque objet est échangé contre {n} {item}.",
              "Après un échange, {who} en a {n} fois plus.", "Bientôt {who} a {n} fois ce nombre."),
        "/": ("Puis le nombre de {item} est divisé par {n}.", "{Who} fait {n} tas égaux et ne garde que le premier.",
              "{Who} partage le tout en parts égales dans {n} sacs et garde le premier sac.",
              "Sur {n} {item}, {who} n'en garde qu'un exemplaire à chaque fois."),
    },
    tricky={
        "+": ("C'est {n} de moins que ce qu'{who} a {later}.", "C'est {n} en dessous du nombre qu'{who} a {later}.",
              "{Who} récupère {n} {item} d'un cadeau fait il y a longtemps."),
        "-": ("C'est {n} de plus que ce qu'{who} a {later}.", "C'est {n} au-dessus du nombre qu'{who} a {later}.",
              "{Who} rend {n} {item} d'un cadeau reçu il y a longtemps."),
        "*": ("Puis le nombre de {item} croît d'un facteur {n}.", "La quantité de {item} augmente d'un facteur {n}."),
        "/": ("C'est {n} fois ce qu'{who} a {later}.", "C'est {n} fois le nombre qu'{who} a {later}."),
    },
    later=("le lendemain", "une semaine plus tard", "une heure plus tard", "un mois plus tard"),
    openings=("{name} a {n} {item}.", "{name} commence avec {n} {item}.", "Au début, {name} a {n} {item}."),
    questions=("Combien de {item} {name} a-t-{who} maintenant ?", "Combien de {item} {name} a-t-{who} à la fin ?",
               "Quel est maintenant le nombre de {item} ?"),
    first=("D'abord, %s.", "Nous commençons par %s.", "Au début, %s.", "Pour commencer, %s {item}."),
    any=("Ensuite %s.", "Maintenant %s.", "{Who} a alors %s {item}.", "Donc {name} a %s {item}.", "Cela fait %s.",
         "On obtient %s {item}."),
    by_symbol={
        "+": ("L'addition donne %s.", "Ensemble cela fait %s {item}."),
        "-": ("La soustraction donne %s.", "Il reste %s {item}."),
        "*": ("La multiplication donne %s.", "Le nouveau nombre est %s {item}."),
        "/": ("La division donne %s.", "Une part est %s {item}."),
    },
    again=("Attends, cela doit être %s.", "Non, c'était faux : %s.", "Je recommence : %s.", "Attends, %s {item}."),
    answer="La réponse est \\boxed{%s}.",
)  # fmt: skip
